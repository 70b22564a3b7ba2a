package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/freeport"
)

// actEnv makes the test binary act as the command, so that the test kills a real process.
const actEnv = "DEPOSITS_ACT"

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

// begin starts the service and, when it listens, returns a function that kills it.
func begin(t *testing.T, dir, address string) (kill func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-listen", address)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), actEnv+"=1")
	var said bytes.Buffer
	cmd.Stderr = &said
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	kill = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	if want := "deposits at http://" + address + "\n"; err != nil || line != want {
		kill()
		t.Fatalf("it says %q, %v, want %q\n%s", line, err, want, said.String())
	}
	return kill
}

// post makes a deposit and returns the status, the content type and the body of the response.
func post(ctx context.Context, address, key string, amount int) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/deposits", strings.NewReader(fmt.Sprintf(`{"amount": %d}`, amount)))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s %s", resp.StatusCode, resp.Header.Get("Content-Type"), body), err
}

// TestKilled kills the service repeatedly while clients make deposits and repeat the unanswered
// ones. Each deposit counts once in the balance, and its response is the same before and after
// each kill.
func TestKilled(t *testing.T) {
	const clients, each, kills = 4, 25, 4
	dir := t.TempDir()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	kill := begin(t, dir, address)
	defer func() { kill() }()

	first, err := post(t.Context(), address, "first", 5)
	if want := "201 application/json {\"amount\":5,\"balance\":5}\n"; err != nil || first != want {
		t.Fatalf("got %q, %v, want %q", first, err, want)
	}
	var mu sync.Mutex
	heard := map[string]string{"first": first} // by key
	note := func(key, answer string) {
		mu.Lock()
		defer mu.Unlock()
		if was, ok := heard[key]; ok && was != answer {
			t.Errorf("%s was answered %q and then %q", key, was, answer)
		}
		heard[key] = answer
	}
	pause := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-t.Context().Done():
		}
	}
	var working sync.WaitGroup
	for c := range clients {
		working.Go(func() {
			for i := range each {
				key := fmt.Sprint(c, " ", i)
				for answers := 0; answers < 2 && t.Context().Err() == nil; {
					answer, err := post(t.Context(), address, key, 1)
					switch {
					case err == nil && strings.HasPrefix(answer, "201 "):
						note(key, answer)
						answers++
						pause(time.Duration(rand.IntN(60)) * time.Millisecond)
					case err == nil && !strings.HasPrefix(answer, "409 ") && !strings.HasPrefix(answer, "50"):
						t.Errorf("%s is answered %q", key, answer)
						return
					default: // the service is down, or still handles the request
						pause(20 * time.Millisecond)
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		working.Wait()
		close(done)
	}()
	for range kills {
		pause(time.Duration(100+rand.IntN(300)) * time.Millisecond)
		kill() // with SIGKILL, in the middle of requests
		kill = begin(t, dir, address)
	}
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the clients do not come to an end")
	}
	kill()
	kill = begin(t, dir, address)
	for key, want := range heard {
		amount := 1
		if key == "first" {
			amount = 5
		}
		if got, err := post(t.Context(), address, key, amount); err != nil || got != want {
			t.Errorf("%s is answered %q, %v, want %q", key, got, err, want)
		}
		if got, err := post(t.Context(), address, key, 7); err != nil || !strings.HasPrefix(got, "422 ") {
			t.Errorf("%s with another body is answered %q, %v", key, got, err)
		}
	}
	last, err := post(t.Context(), address, "last", 0)
	if want := fmt.Sprintf("201 application/json {\"amount\":0,\"balance\":%d}\n", 5+clients*each); err != nil || last != want {
		t.Errorf("the balance is %q, %v, want %q", last, err, want)
	}
}
