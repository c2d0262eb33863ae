# shellcheck shell=bash
# What the two PostgreSQL servers share; sourced by their `start`. There is no client program in the installed
# PostgreSQL, so roles and databases are made before the server opens, in single-user mode.
#
#   postgres_prepare CONF          makes the data directory on the first start
#   postgres_role NAME PASSWORD    collects a login role, created or given this password
#   postgres_database NAME OWNER   collects a database, created if missing and owned by OWNER
#   postgres_statement SQL         collects a statement, run after the others (must be repeatable)
#   postgres_option NAME VALUE     collects a setting of the server
#   postgres_run                   applies what was collected and becomes the server
#
# Environment: BIND_ADDRESS, PORT, STATE_DIR, ADMIN_PASSWORD (superuser `postgres`).

postgres_home=$PWD/.lakehouse/toolchain/postgres
postgres_as=()
postgres_roles=""
postgres_after=""
postgres_databases=()
postgres_options=()

postgres_fail() {
  echo "postgres: $*" >&2
  exit 1
}

# PostgreSQL refuses to run as root. Then it runs as the owner of its data, at first `postgres` or `nobody`. Where that
# user may not pass (a checkout under /root, say), it runs in a user namespace of its own, in which root has another
# number: still the owner of these files, but without root's powers.
postgres_user() {
  ((EUID == 0)) || return 0
  local uid name
  uid=$(stat -c %u "$postgres_data" 2>/dev/null) || {
    for name in postgres nobody; do
      uid=$(id -u "$name" 2>/dev/null) && break
    done
  }
  if ((${uid:-0} != 0)); then
    postgres_owner=$uid
    postgres_as=(setpriv "--reuid=$uid" "--regid=$uid" --clear-groups)
    "${postgres_as[@]}" test -x "$postgres_home/bin/postgres" -a -x "$STATE_DIR" && return 0
  fi
  postgres_owner=0
  postgres_as=(unshare --user --map-user=65534 --map-group=65534)
  "${postgres_as[@]}" true 2>/dev/null ||
    postgres_fail "running as root, and no other user may enter $STATE_DIR: make the way there passable (chmod o+x), or run as an ordinary user"
  if [[ -e $postgres_data ]]; then
    chown -R 0:0 "$postgres_data"
  fi
}

postgres_prepare() {
  postgres_conf=$PWD/$1
  mkdir -p "$STATE_DIR"
  STATE_DIR=$(realpath "$STATE_DIR")
  postgres_data=$STATE_DIR/data
  postgres_owner=$EUID
  postgres_user
  cd / # so that a server running as another user stands where it may
  [[ -e $postgres_data ]] && return 0
  local fresh=$STATE_DIR/new
  rm -rf "$fresh" "$STATE_DIR/pwfile"
  (umask 077 && printf '%s\n' "$ADMIN_PASSWORD" >"$STATE_DIR/pwfile" && mkdir "$fresh")
  chown "$postgres_owner" "$fresh" "$STATE_DIR/pwfile"
  "${postgres_as[@]}" "$postgres_home/bin/initdb" -D "$fresh" -U postgres -E UTF8 --locale=C.UTF-8 \
    --auth=scram-sha-256 "--pwfile=$STATE_DIR/pwfile" --no-instructions
  rm -f "$STATE_DIR/pwfile"
  mv "$fresh" "$postgres_data" # a first start that breaks off leaves no half-made cluster
}

postgres_literal() {
  printf "'%s'" "${1//"'"/"''"}"
}

postgres_statement() {
  postgres_after+="$1;"$'\n\n'
}

postgres_option() {
  postgres_options+=(-c "$1=$2")
}

postgres_role() {
  postgres_roles+="DO \$\$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '$1') THEN CREATE ROLE $1 LOGIN; END IF; END \$\$;"$'\n\n'
  postgres_roles+="ALTER ROLE $1 LOGIN PASSWORD $(postgres_literal "$2");"$'\n\n'
}

postgres_database() {
  postgres_databases+=("$1")
  postgres_statement "ALTER DATABASE $1 OWNER TO $2"
}

# postgres_single STATEMENTS: runs them before the server opens, each ended by a semicolon and an empty line. An error
# ends the start; the log then holds the message but not the statement, which may hold a password.
postgres_single() {
  local output attempt
  for attempt in {1..40}; do
    output=$(printf '%s' "$1" | exec "${postgres_as[@]}" env "PG_GRANDPARENT_PID=$$" "$postgres_home/bin/postgres" \
      --single -j -D "$postgres_data" -c "config_file=$postgres_conf" -c log_min_error_statement=panic postgres 2>&1) || true
    # After a kill, the processes of the server that was take a moment to end.
    grep -qE 'lock file ".*" already exists|pre-existing shared memory block' <<<"$output" || break
    ((attempt == 1)) && echo "postgres: waiting for the processes of a killed server to end" >&2
    sleep 0.25
  done
  if grep -qE '(ERROR|FATAL|PANIC):  ' <<<"$output" || [[ $output != *"backend> "* ]]; then
    grep -E '(LOG|ERROR|FATAL|PANIC|DETAIL|HINT):  ' <<<"$output" >&2 || true
    postgres_fail "roles and databases could not be prepared"
  fi
  printf '%s\n' "$output"
}

postgres_run() {
  local listing name missing=""
  postgres_roles="ALTER ROLE postgres PASSWORD $(postgres_literal "$ADMIN_PASSWORD");"$'\n\n'$postgres_roles
  listing=$(postgres_single "${postgres_roles}SELECT '[' || datname || ']' AS database FROM pg_database;"$'\n\n')
  for name in "${postgres_databases[@]}"; do
    [[ $listing == *"[$name]"* ]] || missing+="CREATE DATABASE $name;"$'\n\n'
  done
  postgres_single "$missing$postgres_after" >/dev/null
  exec "${postgres_as[@]}" "$postgres_home/bin/postgres" -D "$postgres_data" -c "config_file=$postgres_conf" \
    -c "hba_file=${postgres_conf%/*/*}/postgres/pg_hba.conf" -c "listen_addresses=$BIND_ADDRESS" -c "port=$PORT" "${postgres_options[@]}"
}
