package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHandOver uses two hosts at two loopback addresses. Each tool server may move sessions only to its own address and to
// its runtime, so nothing goes directly from one tool server to the other.
func TestHandOver(t *testing.T) {
	t.Parallel()
	handOver(t, [2]*netHost{{public: "127.0.0.2", tools: "127.0.0.2"}, {public: "127.0.0.3", tools: "127.0.0.3"}}, freePort(t), -1)
}

// TestHandOverKilled kills a host and its tool server in the middle of a move, which still completes.
func TestHandOverKilled(t *testing.T) {
	for i, name := range []string{"source", "destination"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, other := fmt.Sprint("127.0.1.", i), fmt.Sprint("127.0.2.", i)
			handOver(t, [2]*netHost{{public: one, tools: one}, {public: other, tools: other}}, freePort(t), i)
		})
	}
}

// freePort returns a port that is free at the addresses of these tests, as are those that follow it.
func freePort(t *testing.T) int {
	_, port, _ := net.SplitHostPort(freeAddress(t))
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return min(n, 65000)
}

// TestHandOverBetweenNamespaces uses hosts in two network namespaces. Their runtimes reach each other, and each tool server is on
// its own loopback.
func TestHandOverBetweenNamespaces(t *testing.T) {
	t.Parallel()
	var hosts [2]*netHost
	var pids [2]int
	for i := range hosts {
		do, err := newNamespace(t)
		if errors.Is(err, unix.EPERM) {
			t.Skipf("network namespaces cannot be made here: %v; TestHandOver has the same at one", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		hosts[i] = &netHost{public: "10.9.8." + strconv.Itoa(i+1), tools: "127.0.0.1", network: "10.9.8.0/24", do: do, clients: dialFrom(do)}
		keep := exec.Command("sleep", "600") // other processes find the namespace by this process ID
		if err := do(keep.Start); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { keep.Process.Kill(); keep.Wait() })
		pids[i] = keep.Process.Pid
	}
	ip := func(h *netHost, args string) {
		t.Helper()
		cmd := exec.Command("ip", strings.Fields(args)...)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = &said, &said
		err := h.within(cmd.Start)
		if err == nil {
			err = cmd.Wait()
		}
		if err != nil {
			t.Fatalf("ip %s: %v: %s", args, err, said.String())
		}
	}
	ip(hosts[0], "link add here type veth peer name here netns "+strconv.Itoa(pids[1]))
	for _, h := range hosts {
		ip(h, "link set lo up")
		ip(h, "addr add "+h.public+"/24 dev here")
		ip(h, "link set here up")
	}
	handOver(t, hosts, 17340, -1)
}

// newNamespace returns a function that calls a function inside a new network namespace.
func newNamespace(t *testing.T) (func(func() error) error, error) {
	type made struct {
		file *os.File
		err  error
	}
	done := make(chan made)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- made{nil, err}
			return
		}
		f, err := os.Open("/proc/thread-self/ns/net")
		done <- made{f, err}
	}()
	m := <-done
	if m.err != nil {
		return nil, m.err
	}
	t.Cleanup(func() { m.file.Close() })
	return func(what func() error) error {
		result := make(chan error)
		go func() {
			runtime.LockOSThread()
			if err := unix.Setns(int(m.file.Fd()), unix.CLONE_NEWNET); err != nil {
				result <- err
				return
			}
			result <- what()
		}()
		return <-result
	}, nil
}
