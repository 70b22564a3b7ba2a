package jetstream_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var (
	kills        = flag.Int("kills", 20, "how often the process with the embedded server is killed")
	clusterKills = flag.Int("clusterkills", 1, "how often the leader in a cluster is killed")
	seed         = flag.Uint64("seed", rand.Uint64(), "of what is random in tests with kills")
)

// childKey is the variable that makes the test binary the process that is killed.
const childKey = "JOURNAL_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childKey); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if dir, err := workshop(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// workshop is a directory for as long as the test binary runs.
var workshop = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "journal") })

// serverBinary builds nats-server from the module, once.
var serverBinary = sync.OnceValues(func() (string, error) {
	dir, err := workshop()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "nats-server")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return binary, nil
})
