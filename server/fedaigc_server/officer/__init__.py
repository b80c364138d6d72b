"""The officer's side of the ledger: hash locally, ask, open, verify. Content never leaves this process."""
