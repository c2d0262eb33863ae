# shellcheck shell=bash disable=SC2034
# How the JVM servers are run; sourced by their `start`. Environment: HEAP (such as 512m); JAVA_OPTIONS, more options,
# and JAVA_HOME, if set.

toolchain=$PWD/.lakehouse/toolchain
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
# One collector thread and a small start suit several JVMs on one small machine. A JVM that runs out of memory ends,
# so that its supervisor brings it back whole. Of two that disagree the later one counts.
read -ra own_options <<<"${JAVA_OPTIONS:-}"
java_options=(
  "-Xmx$HEAP" -Xms32m -Xss512k -XX:+UseSerialGC -XX:ReservedCodeCacheSize=96m -XX:-UsePerfData
  -XX:+ExitOnOutOfMemoryError -XX:+ErrorFileToStderr -Djava.awt.headless=true -Dfile.encoding=UTF-8 -Duser.timezone=UTC
  "${own_options[@]}"
)
# To be said before them by servers that are asked a few times a second: the optimising compiler would never earn what
# it takes (decision 054).
quick_compiler=-XX:TieredStopAtLevel=1

# observed SERVICE: has the JVM tell its metrics on METRICS_PORT, if the stack is observed (PROFILES=observe).
observed() {
  [[ -z ${OBSERVE:-} ]] ||
    java_options+=("-javaagent:$toolchain/jars/jmx/agent.jar=${BIND_ADDRESS:-127.0.0.1}:$METRICS_PORT:$PWD/infra/jmx/$1.yml")
}

# render TEMPLATE: prints it with every ${NAME} replaced by that variable; an unset one is an error.
render() {
  local text
  text=$(<"$1")
  while [[ $text =~ \$\{([A-Za-z_][A-Za-z0-9_]*)\} ]]; do
    text=${text//"${BASH_REMATCH[0]}"/"${!BASH_REMATCH[1]}"}
  done
  printf '%s\n' "$text"
}
