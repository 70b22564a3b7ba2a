package dataflow_test

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/millrace/millrace/dataflow"
)

func ExampleScan() {
	dataflow.Local(func(at dataflow.Here) {
		levels := dataflow.Of(at, 3, 6, 7, 4, 9)
		// The pump starts above 5 and stops at 5 or below. It receives only changes.
		pump := dataflow.Scan(levels, func() bool { return false }, func(on *bool, level int, emit func(string)) {
			if high := level > 5; high != *on {
				*on = high
				emit(fmt.Sprint("pump on: ", high))
			}
		})
		dataflow.Print(pump)
	})
	// Output:
	// pump on: true
	// pump on: false
	// pump on: true
}

func ExampleEnumerate() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(dataflow.Enumerate(dataflow.Of(at, "gold", "silver", "bronze")))
	})
	// Output:
	// (0, gold)
	// (1, silver)
	// (2, bronze)
}

func ExampleLimit() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(dataflow.Limit(dataflow.Of(at, "ann", "bob", "cho", "dag"), 2))
	})
	// Output:
	// ann
	// bob
}

func ExampleUnique() {
	dataflow.Local(func(at dataflow.Here) {
		// A sensor that repeats a message until it is acknowledged.
		messages := dataflow.AssumeRepeats(dataflow.Of(at, "#1 open", "#1 open", "#2 shut", "#1 open"))
		dataflow.Print(dataflow.Unique(messages))
	})
	// Output:
	// #1 open
	// #2 shut
}

func ExampleChain() {
	dataflow.Local(func(at dataflow.Here) {
		header, rows := dataflow.Of(at, "name,age"), dataflow.Of(at, "ann,41", "bob,39")
		dataflow.Print(dataflow.Chain(header, rows))
	})
	// Output:
	// name,age
	// ann,41
	// bob,39
}

func ExampleMergeOrdered() {
	dataflow.Local(func(at dataflow.Here) {
		left, right := dataflow.Of(at, "left 1", "left 2"), dataflow.Of(at, "right 1", "right 2")
		both := dataflow.MergeOrdered(left, right, "a log shows who was first here, whoever that was")
		dataflow.Print(dataflow.Filter(both, func(line string) bool { return line[:4] == "left" }))
	})
	// Output:
	// left 1
	// left 2
}

func ExamplePartition() {
	dataflow.Local(func(at dataflow.Here) {
		pass, fail := dataflow.Partition(dataflow.Of(at, 81, 34, 50, 49), func(points int) bool { return points >= 50 })
		show(dataflow.Count(pass))
		dataflow.Print(fail)
	})
	// Unordered output:
	// 2
	// 34
	// 49
}

func ExampleSort() {
	dataflow.Local(func(at dataflow.Here) {
		here, there := dataflow.Of(at, "oak", "ash"), dataflow.Of(at, "elm")
		dataflow.Print(dataflow.Sort(dataflow.Merge(here, there)))
	})
	// Output:
	// ash
	// elm
	// oak
}

func ExampleWeakenOrder() {
	dataflow.Local(func(at dataflow.Here) {
		known, found := dataflow.Of(at, 2, 3), dataflow.Merge(dataflow.Of(at, 7), dataflow.Of(at, 5))
		dataflow.Print(dataflow.Chain(dataflow.WeakenOrder(known), found))
	})
	// Unordered output:
	// 2
	// 3
	// 5
	// 7
}

func ExampleTryMap() {
	dataflow.Local(func(at dataflow.Here) {
		numbers, failures := dataflow.TryMap(dataflow.Of(at, "12", "dozen", "7"), strconv.Atoi)
		show(dataflow.Sum(numbers))
		dataflow.ForEach(failures, func(f dataflow.Failure[string]) {
			fmt.Println(f.Value, "is no number:", errors.Is(f, strconv.ErrSyntax))
		})
	})
	// Unordered output:
	// 19
	// dozen is no number: true
}

func ExampleCross() {
	dataflow.Local(func(at dataflow.Here) {
		sizes, colours := dataflow.Of(at, "S", "L"), dataflow.Of(at, "red", "blue")
		dataflow.Print(dataflow.Cross(sizes, colours))
	})
	// Unordered output:
	// (S, red)
	// (S, blue)
	// (L, red)
	// (L, blue)
}
