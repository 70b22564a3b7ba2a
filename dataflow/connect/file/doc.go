// Package file reads and writes files of lines with package connect.
//
// [Lines], [JSON] and [CSV] return sources. The files that match a pattern are the splits. The position of a record is the number
// of bytes up to its end, uncompressed. Files whose names end in .gz are decompressed.
//
//	connect.Attach(ctx, app, connect.BySplit(file.JSON[Order]("/var/log/orders/*.jsonl", file.Options{Follow: true})), in, connect.Options{})
//
// [Segments] is an Atomic sink: folders of files that appear whole and do not change.
package file
