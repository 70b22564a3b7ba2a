package linear_test

import (
	"fmt"

	"github.com/millrace/millrace/dataflow/sim/linear"
)

func Example() {
	history := []linear.Operation{
		{Client: 1, Key: "a", Input: linear.Put{Value: 10}, Output: true, Call: 1, Return: 4},
		{Client: 2, Key: "a", Input: linear.Put{Value: 20}, Output: false, Call: 2, Return: 3},
		{Client: 2, Key: "a", Input: linear.Get{}, Output: linear.Found{Value: 20, OK: true}, Call: 5, Return: 6},
	}
	fmt.Println(linear.Check(linear.PutOnce(), history))
	// Output:
	// linear: not linearizable: 3 operations of key a have no order that gives these results
	// 	client 1  [0, 3]  Put{Value:10} = true
	// 	client 2  [1, 2]  Put{Value:20} = false
	// 	client 2  [4, 5]  Get{} = {Value:20 OK:true}  <- cannot be explained
}

func ExampleNewChecker() {
	checker := linear.NewChecker(linear.Counter())
	for range 3 { // schedules
		err := checker.Check([]linear.Operation{
			{Client: 1, Input: linear.Add{N: 1}, Output: linear.Unknown, Call: 1}, // cut off
			{Client: 2, Input: linear.Get{}, Output: 0, Call: 2, Return: 3},
			{Client: 2, Input: linear.Get{}, Output: 1, Call: 4, Return: 5},
		})
		fmt.Println(err)
	}
	fmt.Println(checker.Distinct(), "history")
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// 1 history
}

func ExampleRegister() {
	read := func(value int, call int64) linear.Operation {
		return linear.Operation{Client: 2, Input: linear.Read{}, Output: value, Call: call, Return: call + 1}
	}
	write := linear.Operation{Client: 1, Input: linear.Write{Value: 1}, Call: 0, Return: 9}
	fmt.Println(linear.Check(linear.Register(0), []linear.Operation{write, read(0, 2), read(1, 4)}) == nil)
	fmt.Println(linear.Check(linear.Register(0), []linear.Operation{write, read(1, 2), read(0, 4)}) == nil)
	// Output:
	// true
	// false
}

func ExampleCounter() {
	add := linear.Operation{Input: linear.Add{N: 2}, Output: 2, Call: 1, Return: 2}
	fmt.Println(linear.Check(linear.Counter(), []linear.Operation{add}))
	// Output: <nil>
}

func ExampleSet() {
	twice := []linear.Operation{
		{Client: 1, Input: linear.Insert{Value: "x"}, Output: true, Call: 1, Return: 3},
		{Client: 2, Input: linear.Insert{Value: "x"}, Output: true, Call: 2, Return: 4},
	}
	fmt.Println(linear.Check(linear.Set(), twice) != nil)
	// Output: true
}

func ExampleQueue() {
	early := []linear.Operation{
		{Client: 1, Input: linear.Dequeue{}, Output: linear.Found{Value: "x", OK: true}, Call: 1, Return: 2},
		{Client: 2, Input: linear.Enqueue{Value: "x"}, Call: 3, Return: 4},
	}
	fmt.Println(linear.Check(linear.Queue(), early) != nil)
	// Output: true
}

func ExampleLock() {
	both := []linear.Operation{
		{Client: 1, Input: linear.Acquire{By: "ann"}, Output: true, Call: 1, Return: 2},
		{Client: 2, Input: linear.Acquire{By: "bob"}, Output: true, Call: 3, Return: 4},
	}
	fmt.Println(linear.Check(linear.Lock(), both) != nil)
	// Output: true
}

func ExamplePutOnce() {
	put := linear.Operation{Input: linear.Put{Value: 1}, Output: true, Call: 1, Return: 2}
	fmt.Println(linear.Check(linear.PutOnce(), []linear.Operation{put}))
	// Output: <nil>
}
