"""The server: connections, TLS and HTTP around an application that it knows by WSGI alone."""
