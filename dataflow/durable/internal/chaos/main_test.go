package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/natstest"
)

var (
	duration = flag.Duration("chaos.duration", 5*time.Second, "how long each scenario breaks things")
	all      = flag.Bool("chaos.all", false, "run all scenarios instead of a few")
	kills    = flag.Int("chaos.kills", 10, "how often the process with the embedded server is killed")
	seed     = flag.Uint64("seed", rand.Uint64(), "of what is random")
)

// These environment variables make the test binary one of the processes that the tests
// kill.
const (
	workerKey = "CHAOS_WORKER" // a workerConfig
	singleKey = "CHAOS_SINGLE" // a singleConfig
)

func TestMain(m *testing.M) {
	for key, run := range map[string]func(config string) error{workerKey: runWorker, singleKey: runSingle} {
		if config := os.Getenv(key); config != "" {
			if err := run(config); err != nil {
				fmt.Fprintln(os.Stderr, "ended:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(natstest.Main(m))
}

// within is the time limit for anything that has to happen.
const within = 90 * time.Second

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	t.Cleanup(cancel)
	return ctx
}

// eventually calls do until it returns nil.
func eventually(t testing.TB, do func(context.Context) error) {
	t.Helper()
	natstest.Eventually(t, within, do)
}

// pass waits for d. It reports whether d elapsed before ctx ended.
func pass(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// between returns a random duration from a to b.
func between(rng *rand.Rand, a, b time.Duration) time.Duration {
	return a + time.Duration(rng.Int64N(int64(b-a)+1))
}
