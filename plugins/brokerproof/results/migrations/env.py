"""Migrates the history's database for Alembic, on the connection that history_database.py put into the configuration.

To add a migration, change history_schema.py. On a database without rows that has the schema of the last revision, run
`alembic.command.revision(make_migration_config(connection), "what and why", autogenerate=True)`. Read the file that
this call writes.
"""

from alembic import context
from brokerproof.results.history_schema import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    # SQLite alters tables by building them again.
    render_as_batch=True,
    # Alembic's default on SQLite is False, because Python keeps CREATE TABLE out of transactions. The engine of
    # history_database.py includes it.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
