"""Policy versions on the server."""
