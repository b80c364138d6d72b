"""`python -m fedaigc_server` is `fedaigc-server`."""

from fedaigc_server.cli import main

if __name__ == "__main__":
    main()
