"""Admission reviews, and the pages beside them, as a WSGI application: the engine answers, nothing is decided here."""
