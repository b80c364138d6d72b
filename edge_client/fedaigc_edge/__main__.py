"""`python -m fedaigc_edge`: the same as `fedaigc-edge`."""

from fedaigc_edge.cli import main

if __name__ == "__main__":
    main()
