# Completion of `ebb` for bash: `source <(ebb completion bash)` in ~/.bashrc
_ebb() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files) compopt -o default ;;
      :folders) compopt -o dirnames ;;
      *=) compopt -o nospace; COMPREPLY+=("$line") ;;
      *) COMPREPLY+=("$line") ;;
    esac
  done < <("${COMP_WORDS[0]}" completion bash --line="${COMP_LINE:0:COMP_POINT}" --last="$2" 2>/dev/null)
}
complete -F _ebb ebb
