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

// A kill needs a process of its own, so the test binary is run again with a mode. The child says how far it is, and is killed when
// it has come to a number that is drawn: not after a time, since a slow machine would be killed before it does anything.
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

// far says how far a child is.
func far(n int64) { fmt.Println("far", n) }

// killed runs a child again and again, and kills it so many times when it is between 1 and most. It returns what the last one,
// which ended by itself, printed, and how far all of them were together.
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

// follow reads what a child prints, and returns it without the lines of far, of which it returns the last number.
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
