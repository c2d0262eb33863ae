# shellcheck shell=bash
# Health checks without any client program; sourced by the `health` scripts. Exit code 0 is healthy; otherwise one line
# on standard error says why not. Environment: PORT, and for PostgreSQL STATE_DIR.

unhealthy() {
  echo "$*" >&2
  exit 1
}

# Servers that listen on every address (in a container) are asked on loopback, like those that listen only there.
connect_to() {
  { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || unhealthy "nothing listens on port $1"
}

# healthy_http PORT PATH [TEXT]: answers 200 (and the body holds TEXT).
healthy_http() {
  local at=$1 path=$2 text=${3-} status answer
  connect_to "$at"
  printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n\r\n' "$path" "$at" >&3
  IFS= read -r -t 8 status <&3 || unhealthy "port $at accepts connections but does not answer"
  [[ $status == *" 200"* ]] || unhealthy "GET $path on port $at: ${status%$'\r'}"
  [[ -n $text ]] || return 0
  answer=$(timeout 8 cat <&3 | tr -d '\0')
  [[ $answer == *"$text"* ]] || unhealthy "GET $path on port $at answers without '$text'"
}

# healthy_postgres: the postmaster lives, has finished recovery and accepts connections on PORT.
healthy_postgres() {
  local file=$STATE_DIR/data/postmaster.pid line
  mapfile -t line < <(cat "$file" 2>/dev/null)
  ((${#line[@]} >= 8)) || unhealthy "the server has not started"
  [[ ${line[7]} == ready* ]] || unhealthy "the server is ${line[7]}"
  [[ -d /proc/${line[0]} && ${line[3]} == "$PORT" ]] || unhealthy "the server of postmaster.pid has died"
  connect_to "$PORT"
}

# healthy_kafka: the broker answers an ApiVersions request (version 0, correlation id 1) without an error.
healthy_kafka() {
  local answer
  connect_to "$PORT"
  printf '\0\0\0\012\0\022\0\0\0\0\0\001\377\377' >&3
  answer=$(timeout 8 od -An -v -tx1 -N10 <&3 | tr -d ' \n')
  [[ ${answer:8} == 000000010000 ]] || unhealthy "the broker does not answer on port $PORT"
}
