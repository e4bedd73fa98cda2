"""Runs the migrations on the connection that history.py hands over.

A new migration: change history_schema.py, then on a scratch database
`alembic.command.revision(migration_config(connection), "what and why", autogenerate=True)`, and read what it wrote.
"""

from alembic import context
from brokerproof.results.history_schema import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    # SQLite alters tables by rebuilding them.
    render_as_batch=True,
    # Not Alembic's default on SQLite, where Python does not put CREATE TABLE into a transaction; history.py does.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
