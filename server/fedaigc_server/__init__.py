"""The datacenter server: enrolment, registry, ledger, rounds and policies behind two small HTTP faces."""
