package disklog_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

var (
	kills = flag.Int("kills", 12, "how often the process with the log is killed")
	seed  = flag.Uint64("seed", rand.Uint64(), "of what is random in tests with kills and damage")
)

// childKey is the environment variable that makes the test binary run as the process to
// kill.
const childKey = "DISKLOG_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childKey); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
