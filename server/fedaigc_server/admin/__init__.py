"""The admin port: loopback only, a bearer token a role, for the operator and for the officer."""
