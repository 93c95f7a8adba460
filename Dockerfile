# Mercury in one image; the data folder is a volume.
FROM python:3.11-slim
WORKDIR /mercury
COPY requirements.txt pyproject.toml ./
RUN pip install --no-cache-dir -r requirements.txt
COPY app.py ./
COPY bot bot
COPY memory memory
COPY wiki wiki
COPY cli cli
RUN pip install --no-cache-dir --no-deps . && useradd --create-home mercury && mkdir /data && chown mercury /data
USER mercury
ENV MERCURY_DATA=/data
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
CMD ["mfw", "serve", "--host", "0.0.0.0"]
