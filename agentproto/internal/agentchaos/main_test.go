package agentchaos

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/natstest"
)

var (
	duration = flag.Duration("agentchaos.duration", 4*time.Second, "for how long processes are killed")
	chance   = flag.Float64("agentchaos.chance", 0.03, "the probability with which a process is killed in a tick")
	tick     = flag.Duration("agentchaos.tick", 100*time.Millisecond, "how long a tick is")
	sharing  = flag.Bool("agentchaos.shared", false, "also run the form in which the runtimes share a NATS cluster")
	seed     = flag.Uint64("seed", rand.Uint64(), "of what is random")
)

// configEnv makes the test binary run as one of the processes that are killed.
const configEnv = "MILLRACE_TEST_AGENTCHAOS"

// A config describes a process.
type config struct {
	Kind     string // runtime or tools
	Name     string
	Listen   string // of callbacks, or of a tool server
	API      string // of a runtime
	State    string
	Toolsets []string // of a runtime
	Servers  []string // of NATS, of a runtime that shares its calls
	Issuer   string   // of a tool server's OAuth provider
	AuthURL  string
	TokenURL string
	CA       []byte
}

func TestMain(m *testing.M) {
	if text := os.Getenv(configEnv); text != "" {
		var c config
		err := json.Unmarshal([]byte(text), &c)
		if err == nil {
			go func() {
				io.Copy(io.Discard, os.Stdin) // ends with the parent, even if that is killed
				os.Exit(0)
			}()
			err = map[string]func(config) error{"runtime": runRuntime, "tools": runTools}[c.Kind](c)
		}
		fmt.Fprintln(os.Stderr, "ended:", err)
		os.Exit(1)
	}
	os.Exit(natstest.Main(m))
}

// listen listens at an address that a killed process has just released.
func listen(addr string) (l net.Listener, err error) {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	for {
		if l, err = net.Listen("tcp", addr); err == nil || !pass(ctx, 20*time.Millisecond) {
			return l, err
		}
	}
}

// pass waits for d and reports whether ctx has not ended.
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

// A note is a line in which a process reports an event. Everything written before a kill
// is read.
type note struct {
	What    string // ready; told, by a runtime: a resolution; ok, by a tool server: answered 200; oauth
	Type    string // of ok: the callback's
	Thread  string
	Call    string
	Cause   string
	Text    string
	AuthURL string
}

// A notebook is the standard output of a process.
type notebook struct{ mu sync.Mutex }

func (b *notebook) write(n note) {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	os.Stdout.Write(append(text, '\n'))
}
