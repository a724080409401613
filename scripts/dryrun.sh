#!/usr/bin/env bash
# Dry runs of a MindFormers training: one for each pipeline stage, on the first rank of the stage, without a device.
#
#   bash dryrun.sh "python run_mindformer.py --config CONFIG" RANK_SIZE STAGE_NUM OUT
#
# RANK_SIZE is the number of devices of the real training, STAGE_NUM its pipeline stages. Run this where the command
# works. The log of stage S, whose first rank is R, is OUT/stage_S_rank_R/mindformer.log.
# JOBS=N runs N at a time (default 4); each compiles the model and needs host memory for it.
#
# Exit status: 0 every stage has its peak memory, 1 a dry run failed, 2 bad arguments, 130 interrupted.

LOG=mindformer.log
PEAK='peak memory usage'
declare -A stage_of  # by process id of what runs
failed=()
num_done=0

refuse() {
  printf 'error: %s\n' "$1" >&2
  exit 2
}

is_count() {
  [[ $1 =~ ^[1-9][0-9]{0,8}$ ]]
}

folder() { # stage
  printf '%s/stage_%d_rank_%d' "$out" "$1" $(($1 * ranks_per_stage))
}

check_arguments() {
  [[ $# -eq 4 ]] || refuse 'usage: [JOBS=N] bash dryrun.sh "COMMAND" RANK_SIZE STAGE_NUM OUT'
  command=$1 rank_size=$2 num_stages=$3 out=${4%/} jobs=${JOBS:-4}
  [[ $command =~ [^[:space:]] ]] || refuse 'COMMAND must not be empty; give for example "python run_mindformer.py --config CONFIG"'
  is_count "$rank_size" || refuse "RANK_SIZE must be a whole number of at least 1, got '$rank_size'"
  is_count "$num_stages" || refuse "STAGE_NUM must be a whole number of at least 1, got '$num_stages'"
  is_count "$jobs" || refuse "JOBS must be a whole number of at least 1, got '$jobs'"
  [[ -n $out ]] || refuse 'OUT must not be empty; give a folder for the logs'
  ((rank_size % num_stages == 0)) ||
    refuse "STAGE_NUM must divide RANK_SIZE, got $rank_size ranks for $num_stages stages"
  [[ ! -e $out || -d $out ]] || refuse "OUT must be a folder, got the file '$out'"
  if compgen -G "$out/stage_*" >/dev/null; then
    refuse "OUT must be a folder without dry runs, since old and new peaks must not mix, got '$out'; remove them or name another folder"
  fi
  ranks_per_stage=$((rank_size / num_stages))
}

start() { # stage
  local log
  log=$(folder "$1")/$LOG
  # Job control gives every dry run a process group of its own, so that stopping it also stops what it started.
  set -m
  STAGE_ID=$1 RANK_ID=$(($1 * ranks_per_stage)) bash -c "$command" >"$log" 2>&1 </dev/null &
  set +m
  stage_of[$!]=$1
  [[ -t 2 ]] && progress
}

reap() {
  local pid stage status
  for pid in "${!stage_of[@]}"; do
    kill -0 "$pid" 2>/dev/null && continue
    wait "$pid"
    status=$?
    stage=${stage_of[$pid]}
    unset "stage_of[$pid]"
    num_done=$((num_done + 1))
    if ((status != 0)) || ! grep -qF "$PEAK" "$(folder "$stage")/$LOG"; then
      failed+=("$stage:$status")
    fi
    progress
  done
}

progress() {
  local line="dry runs: $num_done of $num_stages done, ${#failed[@]} failed"
  if [[ -t 2 ]]; then
    printf '\r\033[K%s, %d running' "$line" "${#stage_of[@]}" >&2
  else
    printf '%s\n' "$line" >&2
  fi
}

stop() { # exit status
  local pids pid
  trap '' INT TERM HUP
  pids=$(jobs -p)
  for pid in $pids; do kill -TERM -- "-$pid" 2>/dev/null; done
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    any_alive "$pids" || break
    sleep 0.2
  done
  for pid in $pids; do kill -KILL -- "-$pid" 2>/dev/null; done
  printf '\ninterrupted: all dry runs are stopped; their logs are in %s\n' "$out" >&2
  exit "$1"
}

any_alive() { # process groups
  local pid
  for pid in $1; do kill -0 -- "-$pid" 2>/dev/null && return 0; done
  return 1
}

report() {
  local entry stage status log why
  [[ -t 2 ]] && printf '\n' >&2
  for entry in "${failed[@]}"; do
    stage=${entry%:*} status=${entry#*:} log=$(folder "${entry%:*}")/$LOG
    why="ended with status $status"
    ((status == 0)) && why="ended without its '$PEAK' (GLOG_v=1 logs more)"
    printf '\nstage %d %s; the end of %s:\n' "$stage" "$why" "$log" >&2
    tail -n 10 "$log" | sed 's/^/  /' >&2
  done
  if ((${#failed[@]})); then
    printf '\n%d of %d dry runs failed\n' "${#failed[@]}" "$num_stages" >&2
    exit 1
  fi
  printf 'collect the peaks with: evenflow collect-peaks %q --ranks %d\n' "$out" "$num_stages"
}

main() {
  local stage
  check_arguments "$@"
  export MS_SIMULATION_LEVEL=1      # compile and account for memory, without a device
  export MS_KERNEL_LAUNCH_SKIP=all  # run no kernel
  export MS_MEMORY_STATISTIC=1      # write the peaks into the log
  export GLOG_v="${GLOG_v:-2}"
  export RANK_SIZE=$rank_size
  unset RANK_TABLE_FILE             # it would describe the devices of this machine
  trap 'stop 130' INT
  trap 'stop 143' TERM HUP
  # All folders first: a stage that never ran is then missed by whoever reads the logs.
  for ((stage = 0; stage < num_stages; stage++)); do
    { mkdir -p "$(folder "$stage")" && : >"$(folder "$stage")/$LOG"; } || refuse "cannot write to OUT, '$out'"
  done
  for ((stage = 0; stage < num_stages; stage++)); do
    while ((${#stage_of[@]} >= jobs)); do
      sleep 0.2
      reap
    done
    start "$stage"
  done
  while ((${#stage_of[@]})); do
    sleep 0.2
    reap
  done
  report
}

main "$@"
