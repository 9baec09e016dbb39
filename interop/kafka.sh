#!/bin/sh
# Fetches a Kafka broker from Maven Central into DIRECTORY/jars; the directory is the only argument. Needs Maven and Java 17.
set -eu
unset CDPATH
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
[ ! -e "$out/complete" ] || exit 0
cat >"$out/pom.xml" <<EOF
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>festina</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>3.7.2</version></dependency>
  </dependencies>
</project>
EOF
mvn --batch-mode --quiet --file "$out/pom.xml" \
    org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory="$out/jars" >&2
touch "$out/complete"
