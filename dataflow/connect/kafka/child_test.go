package kafka_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow/connect/kafka/kafkatest"
)

// A kill needs a process of its own, so the test runs its binary again with a mode. The child prints its progress, and the test
// kills it at a random number. A random time would kill it on a slow machine before it has done anything.
const (
	modeVar  = "MILLRACE_KAFKA_CHILD"
	seedsVar = "MILLRACE_KAFKA_SEEDS"
	topicVar = "MILLRACE_KAFKA_TOPIC"
	dirVar   = "MILLRACE_KAFKA_DIR"
)

var kills = flag.Int("kills", 12, "how often the tests that kill processes do so")

func TestMain(m *testing.M) {
	flag.Parse()
	switch mode := os.Getenv(modeVar); mode {
	case "":
	case "read":
		exit(readTopic())
	case "write":
		exit(writeTopic())
	default:
		exit(fmt.Errorf("no mode %q", mode))
	}
	code := m.Run()
	kafkatest.Stop()
	os.Exit(code)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// far prints the progress of a child.
func far(n int64) { fmt.Println("far", n) }

// killed runs a child repeatedly and kills it *kills times, each time at a random number from 1 to most. It returns what the last
// child, which ended by itself, printed, and the sum of the progress of all.
func killed(t *testing.T, b *broker, mode, topic string, most int64) (lines []string, sum int64) {
	t.Helper()
	dir := t.TempDir()
	for left := *kills; ; left-- {
		c := exec.Command(os.Args[0], fmt.Sprintf("-kills=%d", *kills))
		c.Env = append(os.Environ(), modeVar+"="+mode, seedsVar+"="+strings.Join(b.seeds, ","), topicVar+"="+topic, dirVar+"="+dir)
		c.Stderr = os.Stderr
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		at := int64(-1)
		if left > 0 {
			at = 1 + rand.Int64N(most)
		}
		lines, n := follow(out, func(n int64) {
			if at >= 0 && n >= at {
				c.Process.Kill() // SIGKILL
			}
		})
		sum += n
		if err := c.Wait(); err == nil {
			if left > 0 {
				t.Logf("the child ended before it was killed %d times more", left)
			}
			return lines, sum
		} else if c.ProcessState.Exited() {
			t.Fatalf("the child failed: %v", err)
		}
	}
}

// follow reads what a child prints. It returns the last number of far, and the other lines.
func follow(out io.Reader, at func(n int64)) (lines []string, last int64) {
	s := bufio.NewScanner(out)
	for s.Scan() {
		n, err := strconv.ParseInt(strings.TrimPrefix(s.Text(), "far "), 10, 64)
		if err != nil {
			lines = append(lines, s.Text())
			continue
		}
		last = n
		at(n)
	}
	return lines, last
}
