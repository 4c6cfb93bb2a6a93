#compdef ebb
# Completion of `ebb` for zsh: put `source <(ebb completion zsh)` into ~/.zshrc after `compinit`, or save this file as
# `_ebb` in a folder of $fpath.
_ebb() {
  local line name paths
  local -a names displayed prefixes
  while IFS= read -r line; do
    name=${line%%$'\t'*}
    case $line in
      :files) paths=files ;;
      :folders) paths=folders ;;
      *)
        if [[ $name == *= ]]; then
          prefixes+=("$name")
        else
          names+=("$name")
          if [[ $line == *$'\t'* ]]; then displayed+=("$name  -- ${line#*$'\t'}"); else displayed+=("$name"); fi
        fi
        ;;
    esac
  done < <("${words[1]}" completion zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)
  (( $#names )) && compadd -l -d displayed -a names
  (( $#prefixes )) && compadd -S '' -a prefixes
  case $paths in
    files) _files ;;
    folders) _files -/ ;;
  esac
}
if [[ ${funcstack[1]} == _ebb ]]; then _ebb "$@"; else compdef _ebb ebb; fi
