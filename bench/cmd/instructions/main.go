//go:build linux && amd64

// Command instructions counts the instructions that a processor executes for an element, by
// executing a part of a job one instruction at a time. Unlike a time, the figure does not depend on
// the machine or on what else it does; it says nothing about caches and mispredicted branches.
//
//	go run ./cmd/instructions > results/instructions.txt
//	go run ./cmd/instructions -job 'Chain/data=random' -functions 30
//
// It runs on Linux on amd64, and counts jobs that do their work on the goroutine that starts them.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/millrace/millrace/bench/internal/jobs"
	"github.com/millrace/millrace/bench/internal/ratio"
)

func main() {
	only := flag.String("job", "", "only jobs that match this `pattern`")
	elements := flag.Int("elements", 1024, "elements to take of each form")
	functions := flag.Int("functions", 8, "functions to print of each form")
	traced := flag.String("traced", "", "be the program that is traced, which does this `form` of a job")
	flag.Parse()
	if *traced != "" {
		work(*only, *traced)
		return
	}
	pattern := regexp.MustCompile(*only)
	for _, f := range forms() {
		if !pattern.MatchString(f.job) {
			continue
		}
		p, err := trace(f, *elements)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s, %s: %v\n", f.job, f.name, err)
			os.Exit(1)
		}
		p.print(os.Stdout, *functions)
	}
}

// work does a form of a job, once to see how long it takes, and then for the tracer: it stops before
// it begins.
func work(job, name string) {
	runtime.LockOSThread()
	if syscall.Gettid() != os.Getpid() {
		panic("the goroutine is not on the first thread, which is the traced one")
	}
	debug.SetGCPercent(-1) // the collector has threads of its own, so its work would be counted only in part
	impl := implementation(job, name)
	run := impl.New()
	start := time.Now()
	run.Do()
	took := time.Since(start)
	if run.Close != nil {
		run.Close()
	}
	run = impl.New()
	fmt.Println(took.Nanoseconds())
	if err := syscall.Tgkill(os.Getpid(), os.Getpid(), syscall.SIGSTOP); err != nil {
		panic(err)
	}
	run.Do()
}

func implementation(job, name string) ratio.Impl {
	for _, j := range jobs.All() {
		for _, impl := range j.Impls {
			if j.Label() == job && impl.Name == name {
				return impl
			}
		}
	}
	panic("no form " + name + " of a job " + job)
}
