// Package kafka reads and writes topics of Kafka.
//
//	orders := kafka.Topic[string, Order]{Seeds: seeds, Name: "orders", Decode: order}
//	reader, err := orders.Reader()
//	pumps, err := connect.Attach(ctx, app, connect.BySplit(reader), in, connect.Options{})
//
// # Reading
//
// A split is a partition of a topic. It is read directly, without a consumer group: which process reads it, and from where, is
// decided by the flow that it is read into. Brokers have to be of version 3.1 or later, whose fetches name topics by an id: a topic that
// is deleted and made again has other splits.
//
// A position's Major is the offset of the next record, and its Minor one more than the epoch of the leader that wrote the record.
// So a floor says of which history of the partition it is: if a partition has lost records in an unclean election and has others
// in their place, it is an error that is a [connect.ErrGap]. So are records that are gone by age. No offset is ever reset.
//
// Transactions are read when they are committed, unless [Topic].Client says otherwise.
//
// # Writing
//
// A [Sink] writes each batch in a transaction that also has the number of its last element, as the offset of a group that nobody
// consumes with. Readers of committed transactions see each element once. They see the elements of a lane in order if these are
// in one partition of the topic, as those without a key are. A [PlainSink] is faster and repeats elements after a crash.
//
// The id of the transactions and the group have one name, millrace.<flow>.<output>.<partition>, with dots in
// names written as %2E. Access to both is what a broker with access
// control has to grant.
//
// # Clients
//
// TLS, authentication and whatever else the client can be told are options of franz-go, such as [kgo.DialTLSConfig] and
// [kgo.SASL]. They are the Client field of [Topic], [Sink] and [PlainSink].
package kafka
