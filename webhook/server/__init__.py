"""The server: connections, TLS and HTTP around an application of which it knows nothing but WSGI."""
