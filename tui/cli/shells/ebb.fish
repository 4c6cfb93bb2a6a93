# Completion of `ebb` for fish: `ebb completion fish > ~/.config/fish/completions/ebb.fish`
function __ebb_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    for line in ($before[1] completion fish -- $before[2..-1] "$current" 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path "$current"
            case :folders
                __fish_complete_directories "$current"
            case '*'
                echo $line
        end
    end
end
complete -c ebb -f -a '(__ebb_complete)'
