//! Parts of a query's plan as bytes, in DataFusion's encoding with an additional leaf.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_proto_converter, physical_plan_to_bytes_with_proto_converter,
};
use datafusion_proto::physical_plan::from_proto::parse_physical_expr_with_converter;
use datafusion_proto::physical_plan::to_proto::serialize_physical_expr_with_converter;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalPlanNodeExt, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::{PhysicalExprNode, PhysicalPlanNode};
use serde::{Deserialize, Serialize};

use super::task::{SentFilter, pack, unpack};
use crate::schema::arrow_schema::queried;
use crate::schema::tables;
use crate::tables::events::Reading;
use crate::tables::leaf::{EventsExec, ScanRequest};

/// The encoded leaf.
#[derive(Serialize, Deserialize)]
struct SentLeaf {
    columns: Vec<usize>,
    filter: SentFilter,
    stored: bool,
    condition: Option<Vec<u8>>,
    projection: Option<Vec<usize>>,
    limit: Option<usize>,
}

/// Whether the values of subqueries are known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Subqueries {
    /// Not yet: the encoded plan is discarded.
    Pending,
    Answered,
}

/// Encodes a plan. A subquery is replaced by its value.
pub fn encode(plan: &Arc<dyn ExecutionPlan>, subqueries: Subqueries) -> Result<Vec<u8>> {
    let codec = Codec { reading: None };
    let bytes = physical_plan_to_bytes_with_proto_converter(plan.clone(), &codec, &Converter(subqueries))?;
    Ok(bytes.to_vec())
}

/// Decodes a plan, whose leaf reads the events given by `reading`.
pub fn decode(bytes: &[u8], context: &TaskContext, reading: Reading) -> Result<Arc<dyn ExecutionPlan>> {
    let codec = Codec { reading: Some(reading) };
    physical_plan_from_bytes_with_proto_converter(bytes, context, &codec, &Converter(Subqueries::Answered))
}

/// Encodes the leaf. Functions are known by name on both sides.
struct Codec {
    /// Set where plans are decoded.
    reading: Option<Reading>,
}

impl Debug for Codec {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str("Codec")
    }
}

impl PhysicalExtensionCodec for Codec {
    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        into: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(leaf) = node.downcast_ref::<EventsExec>() else {
            return Err(unknown(format!("{} cannot be sent", node.name())));
        };
        let ScanRequest { columns, filter, stored, condition } = leaf.request();
        let condition = condition.as_ref().map(|condition| encode_condition(condition, self, converter));
        let sent = SentLeaf {
            columns: columns.clone(),
            filter: SentFilter::of(filter),
            stored: *stored,
            condition: condition.transpose()?,
            projection: leaf.projection(),
            limit: leaf.limit(),
        };
        into.extend(pack(&sent).map_err(unknown)?);
        Ok(())
    }

    fn try_decode(
        &self,
        bytes: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let reading = self.reading.as_ref().ok_or_else(|| unknown("there is nothing to read".into()))?;
        let SentLeaf { columns, filter, stored, condition, projection, limit } = unpack(bytes).map_err(unknown)?;
        if columns.iter().any(|place| *place >= tables::EVENTS.len()) {
            return Err(unknown("events have fewer columns".into()));
        }
        let condition = condition.map(|bytes| decode_condition(&bytes, context)).transpose()?;
        let asked = ScanRequest { columns, filter: filter.filter().map_err(unknown)?, stored, condition };
        let options: &ConfigOptions = context.session_config().options();
        Ok(Arc::new(reading.leaf(Arc::new(asked), projection.as_ref(), limit, options)?))
    }
}

fn unknown(why: String) -> DataFusionError {
    DataFusionError::Plan(why)
}

fn all_columns() -> SchemaRef {
    queried(tables::EVENTS)
}

/// Encodes a condition as a plan that checks it.
fn encode_condition(
    condition: &Arc<dyn PhysicalExpr>,
    codec: &Codec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Vec<u8>> {
    let checks = FilterExec::try_new(condition.clone(), Arc::new(EmptyExec::new(all_columns())))?;
    let bytes = physical_plan_to_bytes_with_proto_converter(Arc::new(checks), codec, converter)?;
    Ok(bytes.to_vec())
}

fn decode_condition(bytes: &[u8], context: &TaskContext) -> Result<Arc<dyn PhysicalExpr>> {
    let (codec, converter) = (Codec { reading: None }, Converter(Subqueries::Answered));
    let checks = physical_plan_from_bytes_with_proto_converter(bytes, context, &codec, &converter)?;
    let checks = checks.downcast_ref::<FilterExec>().map(|checks| checks.predicate().clone());
    checks.ok_or_else(|| unknown("the received condition is invalid".into()))
}

/// Replaces subqueries by their values.
struct Converter(Subqueries);

impl PhysicalProtoConverterExtension for Converter {
    fn proto_to_execution_plan(
        &self,
        proto: &PhysicalPlanNode,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        proto.try_into_physical_plan_with_context(context, self)
    }

    fn execution_plan_to_proto(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalPlanNode> {
        PhysicalPlanNode::try_from_physical_plan_with_converter(plan.clone(), codec, self)
    }

    fn proto_to_physical_expr(
        &self,
        proto: &PhysicalExprNode,
        schema: &Schema,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        parse_physical_expr_with_converter(proto, schema, context, self)
    }

    fn physical_expr_to_proto(
        &self,
        expression: &Arc<dyn PhysicalExpr>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalExprNode> {
        match expression.downcast_ref::<ScalarSubqueryExpr>() {
            Some(subquery) => {
                let value: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(self.value(subquery)?));
                serialize_physical_expr_with_converter(&value, codec, self)
            }
            None => serialize_physical_expr_with_converter(expression, codec, self),
        }
    }
}

impl Converter {
    fn value(&self, subquery: &ScalarSubqueryExpr) -> Result<ScalarValue> {
        let none = Schema::empty();
        if self.0 == Subqueries::Pending {
            return ScalarValue::try_from(subquery.return_field(&none)?.data_type());
        }
        match subquery.evaluate(&RecordBatch::new_empty(Arc::new(none)))? {
            ColumnarValue::Scalar(value) => Ok(value),
            ColumnarValue::Array(values) => ScalarValue::try_from_array(&values, 0),
        }
    }
}
