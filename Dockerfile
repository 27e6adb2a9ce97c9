# docker build -t aevnmt_tf .
# docker run -v "$PWD/runs:/work/runs" aevnmt_tf train --hparams demo
#
# Installs the locked packages and the package itself. Not built or run by the developers so far.
FROM python:3.11-slim

WORKDIR /src
COPY requirements.txt ./
RUN pip install --no-cache-dir --require-hashes -r requirements.txt
COPY . .
RUN pip install --no-cache-dir --no-deps .

RUN useradd --create-home aevnmt && mkdir /work && chown aevnmt /work
USER aevnmt
WORKDIR /work
ENTRYPOINT ["aevnmt"]
CMD ["--help"]
