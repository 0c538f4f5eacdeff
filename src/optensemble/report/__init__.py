"""Reports: pages, figures, tables and notebook output."""
