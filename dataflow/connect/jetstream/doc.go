// Package jetstream reads and writes streams of NATS JetStream.
//
//	orders := jetstream.Stream[struct{}, Order]{JetStream: js, Name: "ORDERS", Decode: order}
//	reader, err := orders.Reader()
//	pumps, err := connect.Attach(ctx, app, connect.Whole(reader), in, connect.Options{})
//
// # Reading
//
// A split is a stream, or what one of [Stream].Subjects selects of it. It is read by sequence, from the floor that the flow keeps:
// nothing is acknowledged, and the server remembers nothing of its readers. A stream that is deleted and made again has other
// splits.
//
// A position's Major is the sequence of a message, and its Minor the time at which the server stored it, in nanoseconds since 1970.
// So a floor says which message it is: a stream that has lost its end, as after a restore from a backup, and has other messages at
// these sequences, is an error that is a [connect.ErrGap]. So are messages that the stream's limits removed before they were read.
//
// A stream that forgets what is acknowledged, with the retention of a work queue or of interest, is refused.
//
// # Writing
//
// A [Sink] gives each lane a subject. The header Millrace-Number of a message is the element's number, and each message, or
// each atomic batch of them, expects the last message of the subject that its writer knows. So the number is there with the element
// or not at all, and a writer that was shut out is refused by the server. The ids of messages by which a server drops repeated ones
// are not used: it forgets them after two minutes.
package jetstream
