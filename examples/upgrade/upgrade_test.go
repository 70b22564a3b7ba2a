package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/durabletest"
	"github.com/millrace/millrace/examples/internal/page"
)

func TestPicture(t *testing.T) { page.Picture(t, func(flow *dataflow.Flow) { version3(flow) }) }

// TestShape compares the program with the version that made the existing histories; see
// durabletest.Upgrade.
func TestShape(t *testing.T) { durabletest.Upgrade(t, version3, "testdata/shape.txt") }

// actEnv makes the test binary act as the command, so that the test kills a real process.
const actEnv = "UPGRADE_ACT"

func TestMain(m *testing.M) {
	if os.Getenv(actEnv) != "" {
		go func() { // ends with the test, even if the test is killed
			io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
		main()
		return
	}
	os.Exit(m.Run())
}

// life runs a version in a folder, kills it with SIGKILL when it has printed some lines, and returns
// these lines. If the version ends by itself, life returns what it wrote to standard error.
func life(t *testing.T, dir string, lines int, args ...string) (printed []string, said string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), actEnv+"=1")
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for reader := bufio.NewScanner(out); len(printed) < lines && reader.Scan(); {
		printed = append(printed, reader.Text())
	}
	if len(printed) == lines {
		_ = cmd.Process.Kill()
	}
	_ = cmd.Wait()
	return printed, wrong.String()
}

// TestKilled runs the three versions one after another, each of them twice. It kills a version in the
// middle of purchases and again after all of them. Each purchase counts once and keeps its first receipt.
func TestKilled(t *testing.T) {
	const each = 20
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			dir := t.TempDir()
			sum, receipts := int64(0), make(map[string]string)
			var all []string
			for version := 1; version <= len(versions); version++ {
				for range each {
					cents := 1 + rng.Int64N(1000)
					all = append(all, fmt.Sprintf("%d:ann:%d", len(all), cents))
					sum += cents
				}
				arg := fmt.Sprint("-version=", version)
				if version > 1 { // it is refused without its upgrade lines, and has changed nothing
					if printed, said := life(t, dir, 1, append([]string{"-without", arg}, all...)...); len(printed) > 0 || !strings.Contains(said, "the program has changed") {
						t.Fatalf("version %d without its lines prints %q and says %q", version, printed, said)
					}
				}
				for _, lines := range []int{len(all) - each + 1 + rng.IntN(each-1), len(all)} {
					printed, said := life(t, dir, lines, append([]string{arg}, all...)...)
					if len(printed) != lines {
						t.Fatalf("version %d prints %q and says %q", version, printed, said)
					}
					for i, receipt := range printed {
						if was, ok := receipts[all[i]]; ok && was != receipt {
							t.Errorf("version %d has the receipt %q for %s, which was %q", version, receipt, all[i], was)
						}
						receipts[all[i]] = receipt
					}
				}
			}
			if last, want := receipts[all[len(all)-1]], fmt.Sprintf("ann has %d.%02d euros, ", sum/100, sum%100); !strings.HasPrefix(last, want) {
				t.Errorf("the last receipt is %q, want %q", last, want)
			}
		})
	}
}
