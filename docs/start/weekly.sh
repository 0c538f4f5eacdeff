# Audit a table of the latest rows: sh weekly.sh TABLE
optensemble audit ensemble.oe "$1" > audit.txt
case $? in
    0) head -n 1 audit.txt ;;
    3|4) head -n 1 audit.txt
       optensemble report ensemble.oe "$1" -o broken.html --quiet
       echo "broken: look at broken.html, and fit again" ; exit 3 ;;
    *) echo "the audit itself failed" ; exit 1 ;;
esac
