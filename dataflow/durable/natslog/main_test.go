package natslog_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/millrace/millrace/internal/natstest"
)

var (
	kills        = flag.Int("kills", 20, "how often the process with the embedded server is killed")
	clusterKills = flag.Int("clusterkills", 1, "how often the leader in a cluster is killed")
	seed         = flag.Uint64("seed", rand.Uint64(), "of what is random in tests with kills")
)

// childKey is the environment variable that makes the test binary the process that the
// test kills.
const childKey = "JOURNAL_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childKey); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(natstest.Main(m))
}
