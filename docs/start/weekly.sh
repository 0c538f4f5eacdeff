# Audit a table of the latest rows: sh weekly.sh TABLE
optensemble audit ensemble.oe "$1" --quiet
case $? in
    0) echo "kept" ;;
    3|4) optensemble report ensemble.oe "$1" -o broken.html --quiet
       echo "broken: look at broken.html, and fit again" ; exit 3 ;;
    *) echo "the audit itself failed" ; exit 1 ;;
esac
