"""The server: a LiveEnsemble over HTTP, one process around one log."""
