"""The HTTP face: admission reviews arrive over TLS and are answered by the one engine; nothing is decided here."""
