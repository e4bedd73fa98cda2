# Brokerproof with Airflow and Spark, for docker-compose.yaml and for links between regions of containers.
# `make image` builds it.
# docker-compose.yaml has its full version, and `make image` passes it on.
ARG PYTHON_IMAGE
FROM ${PYTHON_IMAGE}

RUN apt-get update \
 && apt-get install --yes --no-install-recommends iproute2 procps \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --create-home brokerproof

WORKDIR /opt/brokerproof
# Where the packages come from, as uv and pip name it. Docker passes proxies by itself.
ARG PIP_INDEX_URL
ARG UV_DEFAULT_INDEX
COPY deploy/production.txt ./
# uv, in its locked version, installs the rest in a fraction of pip's time. Modules are compiled here, because nobody may
# write them later, and every process would compile them again.
RUN awk '/^[^ #]/ { wanted = /^uv==/ } wanted' production.txt > uv.txt \
 && pip install --no-cache-dir --require-hashes --requirement uv.txt \
 && uv pip install --system --no-cache --compile-bytecode --require-hashes --requirement production.txt \
 && rm uv.txt
COPY pyproject.toml README.md LICENSE ./
COPY plugins plugins
COPY spark_jobs spark_jobs
COPY dags dags
COPY topologies topologies
COPY expectations expectations
COPY deploy/airflow deploy/airflow
COPY deploy/spark deploy/spark
COPY deploy/supply_chain.txt deploy/supply_chain.txt
RUN pip install --no-cache-dir --no-deps --no-build-isolation --editable . \
 && python -m compileall -q plugins spark_jobs dags \
 && uv venv --quiet /tmp/sbom \
 && uv pip install --quiet --no-cache --python /tmp/sbom --require-hashes --requirement deploy/supply_chain.txt \
 && /tmp/sbom/bin/cyclonedx-py environment "$(command -v python)" --output-file sbom.cdx.json \
 && rm -r /tmp/sbom \
 && mkdir -p airflow/logs var cache \
 && chown -R brokerproof airflow var cache

ENV PYTHONPATH=/opt/brokerproof/plugins:/opt/brokerproof/spark_jobs \
    PYTHONUNBUFFERED=1 \
    AIRFLOW_HOME=/opt/brokerproof/airflow \
    BROKERPROOF_CACHE=/opt/brokerproof/cache \
    SPARK_CONF_DIR=/opt/brokerproof/deploy/spark
USER 10001
