# Fit again if that is due: sh refit.sh TABLE
optensemble update ensemble.oe "$1" --quiet
case $? in
    0) ;;
    5) optensemble refit ensemble.oe --quiet && echo "fitted again" ;;
    *) exit 1 ;;
esac
