# Debian's Prometheus is older than the setting for answers whose type is not said, and accepts such answers without it.
set -eu
grep -v fallback_scrape_protocol /etc/prometheus/prometheus.yml > /tmp/prometheus.yml
for argument; do
  shift
  case $argument in --config.file=*) argument=--config.file=/tmp/prometheus.yml ;; esac
  set -- "$@" "$argument"
done
exec prometheus "$@"
