package recordings_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/recordings"
)

type Station struct{ dataflow.Process }

// A run that was recorded in memory is written to a file after it has gone wrong. Package sim can
// run the same steps again, in a test and in another process: see sim.RerunFile.
func Example() {
	ctx := context.Background()
	var recording dataflow.Recording
	flow := dataflow.NewWithOptions(dataflow.Options{Record: &recording})
	in, words := dataflow.Input[string](dataflow.At[Station](flow), "words")
	dataflow.ForEach(words, func(string) {})
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	in.Send(ctx, "soup")
	in.Send(ctx, "pie")
	fmt.Println(app.Stop(ctx))

	var file bytes.Buffer // os.Create("testdata/soup.mrh")
	if _, err := recordings.Write(&file, &recording); err != nil {
		fmt.Println(err)
		return
	}
	again, err := recordings.Read(&file)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(again.Steps(), "steps") // the first step runs the operators that depend on constants
	_, err = recordings.Read(strings.NewReader("something else"))
	fmt.Println(err)
	// Output:
	// <nil>
	// 3 steps
	// recordings: Read: history: at byte 0: the file begins with "some": it is no history
}

// A service that runs for weeks writes its history while it runs.
func ExampleNewRecorder() {
	ctx := context.Background()
	var file bytes.Buffer // a file of the service
	recorder := recordings.NewRecorder(&file)
	flow := dataflow.NewWithOptions(dataflow.Options{Recorder: recorder})
	in, words := dataflow.Input[string](dataflow.At[Station](flow), "words")
	dataflow.ForEach(words, func(string) {})
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 1000 {
		in.Send(ctx, "soup")
	}
	fmt.Println(app.Stop(ctx))
	fmt.Println(recorder.Close()) // reports whether the history is complete

	recording, err := recordings.Read(&file)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(recording.Steps(), "steps")
	// Output:
	// <nil>
	// <nil>
	// 1001 steps
}
