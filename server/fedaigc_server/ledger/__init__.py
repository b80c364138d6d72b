"""The compliance ledger: what was generated, learned and asked, provable and without its content."""
