# Run a command of optensemble, one at a time: sh step.sh COMMAND ...
exec 9> .lock
flock --wait 600 9 || { echo "another step has run for ten minutes: $*" ; exit 75 ; }
optensemble "$@" --quiet
code=$?
case $code in
    0) ;;
    3) echo "less was earned than promised: optensemble $*" ;;
    4) echo "more was earned than promised: optensemble $*" ;;
    5) echo "a refit is due: optensemble $*" ;;
    *) echo "failed with exit code $code: optensemble $*" ;;
esac
exit $code
