//go:build linux && amd64

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
)

// A form is an implementation of a job, with a function that it calls for each element or each batch.
type form struct {
	job, name string
	calls     string // pattern of the function's name
	elements  int    // for each call
}

// forms returns the forms whose instructions are counted.
func forms() []form {
	const (
		send  = `dataflow\.\(\*InputPort\[\.\.\.\]\)\.Send$`
		batch = `dataflow\.\(\*InputPort\[\.\.\.\]\)\.SendBatch$`
		scale = `jobs\.newChain\.func1$`
		sum   = `jobs\.newTotal\.func1$`
	)
	var all []form
	add := func(job, name, calls string, elements int) { all = append(all, form{job, name, calls, elements}) }
	for _, data := range []string{"predictable", "random"} {
		job := "Chain/data=" + data
		add(job+"/batch=256", "hand", scale, 1)
		add(job+"/batch=256", "millrace", batch, 256)
		add(job+"/batch=1", "mutex", scale, 1)
		add(job+"/batch=1", "millrace", send, 1)
		add(job+"/batch=1", "millrace-seq", scale, 1)
	}
	for _, maps := range []string{"1", "16"} {
		job := "Maps/maps=" + maps
		add(job+"/batch=256", "hand", sum, 1)
		add(job+"/batch=256", "loop", sum, 1)
		add(job+"/batch=256", "millrace", batch, 256)
		add(job+"/batch=64", "millrace", batch, 64)
	}
	for _, keys := range []string{"key=uint64/keys=10000", "key=uint64/keys=100000"} {
		add("First/"+keys, "hand", "mapaccess2_fast64$", 1)
		add("First/"+keys, "millrace", batch, 256)
	}
	add("First/key=string/keys=100000", "hand", "mapaccess2_faststr$", 1)
	add("First/key=string/keys=100000", "millrace", batch, 256)
	for _, inFlight := range []string{"1000", "50000"} {
		job := "FoldEarlyStop/inflight=" + inFlight + "/batch=1"
		add(job, "hand", "runtime.mapaccess1$", 1)
		add(job, "millrace", send, 1)
	}
	add("Join/keys=100000/slice=256", "hand", "mapaccess2_fast64$", 1)
	add("Join/keys=100000/slice=256", "millrace", batch, 256)
	add("Timeout/pending=1M/step=flow/batch=1", "without", send, 1)
	add("Timeout/pending=1M/step=flow/batch=1", "millrace", send, 1)
	for _, form := range []string{"hand", "mutex"} {
		add("Tumbling/window=1m/batch=1", form, "mapassign$", 1)
	}
	add("Tumbling/window=1m/batch=1", "millrace", send, 1)
	add("Machine/timers=0/batch=256", "scan", batch, 256)
	add("Machine/timers=0/batch=256", "millrace", batch, 256)
	add("Machine/timers=0/batch=1", "scan", send, 1)
	add("Machine/timers=0/batch=1", "millrace", send, 1)
	for _, size := range []int{256, 16} {
		job := fmt.Sprintf("Table/job=First/key=struct/batch=%d", size)
		add(job, "table", "keyed.*HashAll$", size)
		add(job, "millrace", batch, size)
	}
	add("Program/callers=1", "hand", `jobs\.\(\*handRuntime\)\.put$`, 1)
	add("Program/callers=1", "whole", `jobs\.\(\*wholeRuntime\)\.Call$`, 1)
	add("Program/callers=1", "millrace", `jobs\.\(\*programRuntime\)\.put$`, 1)
	for _, form := range []string{"plain", "counted"} {
		add("LookedAt/work=count/batch=1", form, send, 1)
	}
	return all
}

// print writes the profile, with some of its functions.
func (p *profile) print(w io.Writer, functions int) {
	per := func(n int) float64 { return float64(n) / float64(p.elements) }
	fmt.Fprintf(w, "%s, %s: %.1f instructions an element (%d elements)\n", p.form.job, p.form.name, per(p.total), p.elements)
	names := slices.SortedFunc(maps.Keys(p.at), func(a, b string) int { return cmp.Or(p.at[b]-p.at[a], cmp.Compare(a, b)) })
	for i, name := range names {
		if i == functions {
			break
		}
		fmt.Fprintf(w, "\t%6.1f  %s\n", per(p.at[name]), name)
	}
}
