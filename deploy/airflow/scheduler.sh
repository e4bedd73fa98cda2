#!/bin/sh
# Airflow's scheduler, whose tasks work beside it in this container. When it is stopped, its tasks are, and the nodes of
# their runs are removed: nobody else would, before the next run.
set -u
stop() {
  trap '' TERM INT
  # All that this user runs here, but neither this shell nor process 1.
  kill -TERM -1
}
trap stop TERM INT
airflow scheduler &
scheduler=$!
wait "$scheduler"
status=$?
# A signal ends the waiting before the scheduler has ended.
while kill -0 "$scheduler" 2> /dev/null; do wait "$scheduler"; done
brokerproof down --here
exit "$status"
