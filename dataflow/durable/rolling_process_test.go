package durable

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
)

// TestRollingUpgrade upgrades a flow from one version to the next while values are sent. Three
// processes of the first version leave or are killed with SIGKILL. Processes of the second version
// join one by one, and one of them is killed too. No send fails, and the sums are right.
func TestRollingUpgrade(t *testing.T) {
	if what := os.Getenv("MILLRACE_ROLLING"); what != "" {
		runRolling(t, strings.Fields(what))
		return
	}
	url := natsServer(t)
	all := make(map[string]*rollingProcess)
	for _, id := range []string{"a", "b", "c"} {
		all[id] = startRolling(t, url, "v1", id)
	}
	r := startRoller(t, url)
	for _, move := range []string{"join d", "kill a", "join e", "leave b", "join f", "kill d", "leave c"} {
		r.more(25)
		switch word, id, _ := strings.Cut(move, " "); word {
		case "join":
			all[id] = startRolling(t, url, "v2", id)
		case "kill":
			all[id].kill(t)
		case "leave":
			all[id].leave(t)
		}
	}
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for r.more(10); ; r.more(1) { // the leases of killed members have to end
		look, err := Programs(soon, rollingOptions(url, "", ""))
		if err != nil {
			t.Fatal(err)
		}
		made := make(map[string]bool)
		for _, p := range look.Partitions {
			made[p.Version] = true
		}
		if look.Done() && look.Newest() == "v2" && len(look.Members) == 2 && len(made) == 1 && made["v2"] {
			break
		}
		if soon.Err() != nil {
			t.Fatalf("the upgrade is not over: %+v", look)
		}
	}
	r.check()
	all["e"].leave(t)
	all["f"].leave(t)
}

// A rollingProcess is a child process that runs the flow.
type rollingProcess struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

func startRolling(t *testing.T, url, version, id string) *rollingProcess {
	t.Helper()
	cmd, in, out := startTest(t, "TestRollingUpgrade", "MILLRACE_ROLLING="+strings.Join([]string{url, version, id}, " "))
	p := &rollingProcess{cmd, in, bufio.NewReader(out)}
	if line, err := p.out.ReadString('\n'); line != "running\n" {
		rest, _ := io.ReadAll(p.out)
		t.Fatalf("process %s of %s: %v\n%s%s", id, version, err, line, rest)
	}
	return p
}

func (p *rollingProcess) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // reports that it was killed
}

func (p *rollingProcess) leave(t *testing.T) {
	t.Helper()
	p.in.Close()
	said, _ := io.ReadAll(p.out)
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
}

// runRolling is the main function of the child process.
func runRolling(t *testing.T, what []string) {
	build := map[string]func(*dataflow.Flow) rollingPorts{"v1": rollingV1, "v2": rollingV2}[what[1]]
	app, err := Start(t.Context(), build, quiet(rollingOptions(what[0], what[1], what[2])))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("running")
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or until its input is closed
	if err := app.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
}
