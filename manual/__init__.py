"""What is written from the tables of the code: pages of the documentation site, man pages, and the package's page."""
