"""Why a row was decided as it was."""
