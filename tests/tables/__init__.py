"""Tests of tables read and written."""
