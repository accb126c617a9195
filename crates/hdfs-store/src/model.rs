//! An HDFS in memory.
