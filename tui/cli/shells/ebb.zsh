#compdef ebb
# Completion of `ebb` for zsh: `source <(ebb completion zsh)` in ~/.zshrc, behind `compinit`, or this file as `_ebb` in a
# folder of $fpath.
_ebb() {
  local line name paths
  local -a names shown open
  while IFS= read -r line; do
    name=${line%%$'\t'*}
    case $line in
      :files) paths=files ;;
      :folders) paths=folders ;;
      *)
        if [[ $name == *= ]]; then
          open+=("$name")
        else
          names+=("$name")
          if [[ $line == *$'\t'* ]]; then shown+=("$name  -- ${line#*$'\t'}"); else shown+=("$name"); fi
        fi
        ;;
    esac
  done < <("${words[1]}" completion zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)
  (( $#names )) && compadd -l -d shown -a names
  (( $#open )) && compadd -S '' -a open
  case $paths in
    files) _files ;;
    folders) _files -/ ;;
  esac
}
if [[ ${funcstack[1]} == _ebb ]]; then _ebb "$@"; else compdef _ebb ebb; fi
